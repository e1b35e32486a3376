package haft

import (
	"context"
	"encoding/json"
	"io"
)

// A Subject is whose data is meant: an organisation, or one user of it. An empty organisation
// is that of whoever asks; others are for the operator of the server.
type Subject struct {
	Org  string `json:"org,omitempty"`
	User string `json:"user,omitempty"`
}

// An ExportLine is one line of an export.
type ExportLine struct {
	// Type is subject, call, event, chain, approval, api_key, agent, tool, mcp_server, webhook,
	// sandbox_config, workspace, file, turn, message, block, passage, audit or usage.
	Type string `json:"type"`
	Data any    `json:"data"`
}

// An Erasure says what was erased.
type Erasure struct {
	ID string `json:"erasure"`
	// Cancelled is how many calls were ended for it, and Entries how many entries of the
	// audit log have lost their content.
	Cancelled int   `json:"cancelled"`
	Entries   int64 `json:"audit_entries"`
}

// An Eraser gives and takes what is kept of somebody.
type Eraser interface {
	// Export writes what is kept, as JSON lines of [ExportLine], without values of secrets.
	Export(ctx context.Context, p Principal, of Subject, w io.Writer) error
	// Erase cancels the calls of the subject and removes what is kept. Entries of the
	// audit log lose their content, and the log still verifies.
	Erase(ctx context.Context, p Principal, of Subject) (*Erasure, error)
}

// WriteExport writes one line of an export.
func WriteExport(w io.Writer, kind string, data any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(ExportLine{kind, data})
}
