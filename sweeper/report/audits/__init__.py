"""What an audit looks at, one module a part of the record; `auditing` puts it together."""
