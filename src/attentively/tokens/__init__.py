"""Tokens: byte-pair encoding, vocabularies and tokenizers."""
