"""Bodies of requests and answers, in JSON and protobuf, to the stored form and back; never a judgement."""
