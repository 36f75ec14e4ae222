"use strict";
// Of every .scroll, data-more names the sides on which there is more to see; those with .newest open at their end.
(() => {
  function tellMore(box) {
    const [view, whole] = [box, box.firstElementChild].map((element) => element.getBoundingClientRect());
    const sides = { left: view.left - whole.left, right: whole.right - view.right, below: whole.bottom - view.bottom };
    const more = Object.keys(sides).filter((side) => sides[side] > 2).join(" ");
    if (box.dataset.more !== more) box.dataset.more = more;
  }

  const sizes = new ResizeObserver((entries) => {
    for (const box of new Set(entries.map(({ target }) => target.closest(".scroll")))) {
      if (!box?.clientWidth) continue;
      if (box.matches(".newest") && !("more" in box.dataset)) box.scrollLeft = box.scrollWidth;
      tellMore(box);
    }
  });

  function watch(part) {
    for (const box of part.querySelectorAll(".scroll")) {
      if (box.firstElementChild) [box, box.firstElementChild].forEach((element) => sizes.observe(element));
    }
  }

  document.addEventListener("scroll", ({ target }) => { if (target.matches?.(".scroll")) tellMore(target); }, true);
  document.addEventListener("htmx:load", ({ target }) => watch(target.parentElement ?? document));
  watch(document);
})();
