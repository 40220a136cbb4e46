"""What travels: messages, Structs of Kubernetes objects and the tables of kinds; never what it means."""
