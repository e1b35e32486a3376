package letta

// Variables are the stored variables of an organisation.
type Variables interface{}
