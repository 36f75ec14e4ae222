"""Does a generated module import, and does it export what upstream exports?"""
