"""The service: it runs the gate for a team's repositories, keeps every result, and shows and reports them."""
