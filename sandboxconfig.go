package haft

import (
	"slices"
	"strconv"
	"time"
)

// SandboxType names a kind of sandbox.
type SandboxType string

// The types of sandboxes.
const (
	SandboxLocal   SandboxType = "local"   // namespaces of this machine
	SandboxGVisor  SandboxType = "gvisor"  // a kernel of its own
	SandboxE2B     SandboxType = "e2b"     // a rented machine
	SandboxModal   SandboxType = "modal"   // a rented machine
	SandboxProcess SandboxType = "process" // no isolation
)

// SandboxTypes lists every type.
func SandboxTypes() []SandboxType {
	return []SandboxType{SandboxLocal, SandboxGVisor, SandboxE2B, SandboxModal, SandboxProcess}
}

// Check reports that t is none of the types.
func (t SandboxType) Check() error {
	if slices.Contains(SandboxTypes(), t) {
		return nil
	}
	return &Error{Code: CodeInvalid, Message: "the type of a sandbox is local, gvisor, e2b, modal or process",
		Misfits: []Misfit{{Pointer: "/type", Message: "is none of the types"}}}
}

// SandboxConfigID identifies a sandbox configuration for as long as it exists.
type SandboxConfigID string

// A SandboxConfig says how an organisation's calls run in sandboxes of one type,
// where neither the tool nor the call does. The variables of the organisation
// belong to it too; they are kept apart, as secrets.
type SandboxConfig struct {
	ID  SandboxConfigID `json:"id"`
	Org string          `json:"org"`
	// Type is unique in an organisation.
	Type        SandboxType `json:"type"`
	Description string      `json:"description,omitempty"`
	// Default makes it the type of calls for which nobody names one.
	Default bool `json:"default,omitempty"`
	// AllowRemote allows code, arguments and variables of calls to leave this machine, for sandboxes of this type that
	// are elsewhere. Without it nothing runs there.
	AllowRemote bool `json:"allow_remote,omitempty"`
	// Limits are those of tools that name none.
	Limits Limits `json:"limits,omitzero"`
	// Network names the hosts that tools may reach which name none themselves.
	Network []string `json:"network,omitempty"`
	// Needs are packages that every tool has besides its own.
	Needs Requirements `json:"requirements,omitzero"`
	// Templates are packages that a call gets besides if it names the template.
	Templates []SandboxTemplate `json:"templates,omitempty"`
	Created   time.Time         `json:"created_at"`
	Updated   time.Time         `json:"updated_at"`
	// If is the revision that the one to be replaced must have, or [IfNone]. It is
	// for writing, and never kept.
	If string `json:"if_revision,omitempty"`
}

// A SandboxTemplate is a named list of packages in a sandbox configuration.
type SandboxTemplate struct {
	// Name is unique in the configuration: lower-case letters, digits, dots, underscores and hyphens.
	Name    string       `json:"name"`
	Needs   Requirements `json:"requirements,omitzero"`
	Created time.Time    `json:"created_at,omitzero"`
}

// IsTemplateName reports whether a template may have the name.
func IsTemplateName(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || i > 0 && (r == '.' || r == '_' || r == '-')) {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// Revision changes with every write.
func (c SandboxConfig) Revision() string { return revision(c.Updated) }

// IfNone is the condition that there is nothing to be replaced.
const IfNone = "none"

// revision makes a text of when something was changed. Stores see to it that no
// two changes have the same time.
func revision(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 36) }
