"""Does a kernel compute what the eager function of its op computes?"""
