"""Does the generated model compute what Hugging Face eager computes?"""
