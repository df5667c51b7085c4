"""Directories of people: LDAP and Active Directory.

Knows: nothing; the files beside it do. Must not know: HTTP, policies.
"""
