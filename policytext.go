package haft

import "time"

// A PolicyText is a policy as somebody wrote it.
type PolicyText struct {
	// Text is YAML; nil where no policy was written.
	Text    []byte
	Updated time.Time
	// If is the revision that the one to be replaced must have, or [IfNone]. It is
	// for writing, and never kept.
	If string
}

// Revision changes with every write, and is empty where no policy was written.
func (p PolicyText) Revision() string {
	if p.Text == nil {
		return ""
	}
	return revision(p.Updated)
}
