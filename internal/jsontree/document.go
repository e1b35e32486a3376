package jsontree

import "encoding/json"

// A Document is a JSON object as text and as a tree, so that who needs the other one need not read
// or write it again. Nobody changes either. Tree is nil if the text has yet to be read.
type Document struct {
	Text json.RawMessage
	Tree *Object
}
