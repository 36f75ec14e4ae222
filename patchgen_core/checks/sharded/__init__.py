"""Does a generated model that ranks share compute what one process's Hugging Face eager computes?"""
