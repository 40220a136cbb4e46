"""Rules about objects: a folder a subject, a generator of field errors a rule, never an exception.

A rule takes the part that it is about and the field path of that part.

Source: the validation packages of k8s.io/{kubernetes,apimachinery,apiextensions-apiserver}, v1.35; messages
are theirs, word for word.
"""
