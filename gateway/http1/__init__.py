"""HTTP/1.1 as bytes in and bytes out, with no sockets: reading requests, reading answers, writing heads.

Stands on `httptools` (llhttp); what llhttp lets through and RFC 9112 does not is refused here.
"""
