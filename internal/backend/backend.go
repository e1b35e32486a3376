// Package backend is what the commands of haft work on: a system that is put together in this
// process, or a server. Commands use both in the same way.
package backend

import (
	"context"
	"io"
	"iter"

	"haft"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/secret"
	"haft/policy"
)

// A System is what commands work on: [Local] or [Remote].
type System interface {
	Service
	Follower
	Policies
	Secrets
	Keys
	AuditLog
}

// Files are files and artifacts of calls.
type Files interface {
	haft.Files
	OpenArtifact(ctx context.Context, p haft.Principal, id haft.CallID, name string) (*haft.Artifact, io.ReadSeeker,
		error)
}

// A Service is everything that an API can do.
type Service interface {
	haft.Service
	haft.MCPServers
	haft.Webhooks
	haft.Retainer
	haft.Eraser
}

// A Follower follows calls.
type Follower interface {
	// Stream makes a call and shows its events as they come. It says whether all
	// of them were shown.
	Stream(ctx context.Context, c haft.Call, show func(haft.Event)) (res *haft.Result, shown bool, err error)
	// Wait returns the result of a call when it has ended or waits for a person.
	Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error)
	// EventsOf lists what has happened to a call, and WatchCall goes on with it.
	EventsOf(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error]
	WatchCall(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error]
	// Owe says that a call was acknowledged that the command does not wait for.
	Owe(org string, id haft.CallID)
	// End closes the system, after the calls that end with it.
	End(ctx context.Context) error
}

// Policies are the rules of the organisation and of the server.
type Policies interface {
	Explain(ctx context.Context, c haft.Call) (policy.Decision, error)
	Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error)
	PutPolicy(ctx context.Context, p haft.Principal, server bool, next haft.PolicyText) (*haft.PolicyText, error)
}

// Secrets are those of the organisation and of its agents.
type Secrets interface {
	BindSecret(ctx context.Context, p haft.Principal, agent, name string, v secret.Value, b *secret.Binding) error
	Secrets(ctx context.Context, p haft.Principal, agent string) ([]secret.Info, error)
	RemoveSecret(ctx context.Context, p haft.Principal, agent, name string) error
}

// Keys are the API keys.
type Keys interface {
	IssueKey(ctx context.Context, p haft.Principal, k auth.Key) (auth.Key, string, error)
	Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error]
	RotateKey(ctx context.Context, p haft.Principal, id string, overlap haft.Millis) (auth.Key, string, error)
	DisableKey(ctx context.Context, p haft.Principal, id string) (auth.Key, error)
	RemoveKey(ctx context.Context, p haft.Principal, id string) error
}

// An AuditLog is the audit log of the organisation.
type AuditLog interface {
	ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error)
	// VerifyAudit also demands marks, which are known from elsewhere.
	VerifyAudit(ctx context.Context, p haft.Principal, marks []audit.Mark) (audit.Report, error)
	FindAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[audit.Entry, error]
	AuditKeys(ctx context.Context, p haft.Principal) ([]byte, error)
}
