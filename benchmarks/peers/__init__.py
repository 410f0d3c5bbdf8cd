"""The measured codes, each in a process of its own, and what their runners share."""
