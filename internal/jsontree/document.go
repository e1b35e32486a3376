package jsontree

import "encoding/json"

// A Document is a JSON object as text and as a tree, so that who needs the other one need not read
// or write it again. Nobody changes either. Tree is nil if the text has yet to be read.
type Document struct {
	Text json.RawMessage
	Tree *Object
}

// OrEmpty returns the document of an object that was read, or that of an empty one if there was an error: arguments
// that cannot be read do not fit, which their validation says better than rules that look at them before.
func OrEmpty(tree *Object, err error) Document {
	if err == nil {
		var text json.RawMessage
		if text, err = Encode(tree); err == nil {
			return Document{Text: text, Tree: tree}
		}
	}
	return Document{Text: json.RawMessage("{}")}
}
