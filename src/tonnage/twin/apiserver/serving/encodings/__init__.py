"""Bodies and answers on the wire, as JSON, YAML and protobuf; never what they mean."""
