package haft

import (
	"encoding/json"
	"time"
)

// Status says what became of a call.
type Status string

// The statuses. The first four are about the run, the others about the call.
const (
	StatusSuccess    Status = "success"            // it ran and gave a value
	StatusError      Status = "error"              // the tool failed
	StatusTimeout    Status = "timeout"            // it took too long
	StatusLimit      Status = "limit"              // it used too much; the failure's kind says of what
	StatusValidation Status = "validation_error"   // the arguments, or the value, do not fit
	StatusDenied     Status = "permission_denied"  // a rule forbids it
	StatusRate       Status = "rate_limited"       // too many calls
	StatusQueued     Status = "queued"             // it is acknowledged and has not begun
	StatusRunning    Status = "running"            // it has begun and not ended
	StatusPending    Status = "pending_approval"   // a person has to agree
	StatusRejected   Status = "denied_by_approver" // a person did not agree
	StatusCancelled  Status = "cancelled"          // it was stopped
	StatusUnknown    Status = "unknown"            // nobody can know whether it ran: never retried by itself
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{
		StatusSuccess, StatusError, StatusTimeout, StatusLimit, StatusValidation, StatusDenied,
		StatusRate, StatusQueued, StatusRunning, StatusPending, StatusRejected, StatusCancelled, StatusUnknown,
	}
}

// Final reports whether nothing more will happen to a call with this status.
func (s Status) Final() bool {
	return s != StatusPending && s != StatusQueued && s != StatusRunning
}

// A Result is the one outcome of a call.
type Result struct {
	Call   CallID `json:"call_id"`
	Tool   string `json:"tool"`
	Digest string `json:"digest,omitempty"`
	Status Status `json:"status"`
	// Value is what the tool gave back, also if it does not fit, unless a validator refused it. It is always valid
	// JSON, null included.
	Value  json.RawMessage `json:"value"`
	Error  *Failure        `json:"error,omitempty"`
	Stdout string          `json:"stdout"`
	Stderr string          `json:"stderr"`
	// Content is what the tool gave to be shown, part by part, if it made parts.
	Content   []Content  `json:"content,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	Usage     Usage      `json:"usage"`
	Sandbox   Sandbox    `json:"sandbox"`
	Timeline  Timeline   `json:"timeline"`
	Truncated Truncated  `json:"truncated,omitzero"`
	// Time is when the call ended, or came to where it is.
	Time time.Time `json:"timestamp,omitzero"`
	// Tries counts the runs; 0 means that none was begun.
	Tries int `json:"tries,omitempty"`
	// Cached says that the value is that of an earlier call.
	Cached bool `json:"cached,omitempty"`
	// Approval is what the call waits for.
	Approval ApprovalID `json:"approval_id,omitempty"`
	// Notices say what filters changed or warned about, by place and rule.
	Notices []string `json:"notices,omitempty"`
	// Workspace says what the call left in its workspace.
	Workspace *WorkspaceUse `json:"workspace,omitempty"`
}

// NoticeOtherType begins the notice that a value does not fit the schema of what the tool returns.
const NoticeOtherType = "value: it is not of the type that the tool returns"

// A Failure says why there is no value, in words that a model can act on. It
// never repeats an argument, a secret or a path of the host.
type Failure struct {
	Kind    FailureKind `json:"kind"`
	Message string      `json:"message"`
	// Retry says whether trying again can help.
	Retry Retry `json:"retry"`
	// RetryAfter is how long to wait first.
	RetryAfter Millis `json:"retry_after_ms,omitempty"`
	// Severity says what has to happen now.
	Severity Severity `json:"severity,omitempty"`
	// Type is the class of the exception, where there was one.
	Type string `json:"type,omitempty"`
	// Traceback shows the tool's own lines.
	Traceback string `json:"traceback,omitempty"`
	// Misfits say where arguments or value do not fit their schema.
	Misfits []Misfit `json:"misfits,omitempty"`
}

// A Misfit is one place where a value does not fit its schema. Message never
// holds the value.
type Misfit struct {
	// Pointer is an RFC 6901 JSON Pointer into the value.
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// Retry says whether the same call may succeed later.
type Retry string

// The kinds of advice.
const (
	RetryNever   Retry = "never"   // it will fail again
	RetrySame    Retry = "same"    // it may succeed unchanged
	RetryChanged Retry = "changed" // it may succeed with other arguments
)

// FailureKind names what went wrong.
type FailureKind string

// The kinds of failure.
const (
	FailException  FailureKind = "exception"         // the tool's code raised
	FailExit       FailureKind = "exit"              // the tool ended its process
	FailSignal     FailureKind = "signal"            // the process died of a signal
	FailRecursion  FailureKind = "recursion"         // the stack ran out
	FailSource     FailureKind = "source"            // the source cannot be loaded
	FailValue      FailureKind = "bad_value"         // the value cannot be represented or does not fit
	FailProtocol   FailureKind = "protocol_error"    // not exactly one valid result arrived
	FailBlocked    FailureKind = "blocked"           // a forbidden system call
	FailRuntime    FailureKind = "runtime"           // the interpreter could not be started
	FailTimeout    FailureKind = "timeout"           // wall time
	FailCPU        FailureKind = "limit_cpu"         // processor time
	FailMemory     FailureKind = "limit_memory"      // memory
	FailPIDs       FailureKind = "limit_pids"        // processes and threads
	FailOpenFiles  FailureKind = "limit_files"       // open descriptors
	FailFileSize   FailureKind = "limit_file_size"   // one file
	FailDisk       FailureKind = "limit_disk"        // bytes of all files
	FailInodes     FailureKind = "limit_inodes"      // number of files
	FailOutput     FailureKind = "limit_output"      // stdout or stderr
	FailResult     FailureKind = "limit_result"      // the encoded value
	FailArtifacts  FailureKind = "limit_artifacts"   // files given back
	FailValidation FailureKind = "validation"        // the arguments do not fit
	FailIsolation  FailureKind = "isolation"         // the demanded isolation cannot be had
	FailDenied     FailureKind = "permission_denied" // a rule forbids it
	FailRejected   FailureKind = "rejected"          // a person did not agree
	FailRate       FailureKind = "rate_limited"      // too many calls
	FailCancelled  FailureKind = "cancelled"         // it was stopped
	FailUnknown    FailureKind = "unknown"           // it may have run
	FailNotFound   FailureKind = "not_found"         // there is no such tool
	FailStopped    FailureKind = "stopped"           // the operator stopped everything
	FailBroken     FailureKind = "circuit_open"      // it failed too often of late
	FailRule       FailureKind = "tool_rule"         // the agent's tool rules forbid it now
	FailFiltered   FailureKind = "filtered"          // a filter refuses what is in it
	FailNetwork    FailureKind = "network"           // the server of the tool cannot be reached
	FailLogin      FailureKind = "login_needed"      // a person has to let Haft act for him first
	FailInternal   FailureKind = "internal"          // a fault of ours
)

// FailureKinds lists every kind.
func FailureKinds() []FailureKind {
	return []FailureKind{
		FailException, FailExit, FailSignal, FailRecursion, FailSource, FailValue, FailProtocol, FailBlocked,
		FailRuntime,
		FailTimeout, FailCPU, FailMemory, FailPIDs, FailOpenFiles, FailFileSize, FailDisk, FailInodes, FailOutput,
		FailResult,
		FailArtifacts, FailValidation, FailIsolation, FailDenied, FailRejected, FailRate, FailCancelled, FailUnknown,
		FailNotFound, FailStopped, FailBroken, FailRule, FailFiltered, FailNetwork, FailLogin, FailInternal,
	}
}

// An Artifact is a file that a tool left for its caller.
type Artifact struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	// Data is the content; JSON carries it as base64. What is kept of a call has large
	// artifacts as files instead.
	Data []byte `json:"data,omitempty"`
	// File is the file that has the content.
	File FileID `json:"file_id,omitempty"`
}

// ContentType says what a [Content] is. The types are those of MCP.
type ContentType string

// The types of content.
const (
	ContentText     ContentType = "text"          // Text
	ContentImage    ContentType = "image"         // what Artifact names
	ContentAudio    ContentType = "audio"         // what Artifact names
	ContentResource ContentType = "resource"      // Text, or what Artifact names, which URI stands for
	ContentLink     ContentType = "resource_link" // what URI points to
)

// Content is one part of what a tool gave to be shown. Its bytes are those of an
// artifact: they are bounded, kept and redacted there.
type Content struct {
	Type ContentType `json:"type"`
	Text string      `json:"text,omitempty"`
	// Artifact is the name of the one that has the data.
	Artifact string `json:"artifact,omitempty"`
	// URI, Name, Title, Description and Size are of a resource.
	URI         string `json:"uri,omitempty"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Size        int64  `json:"size,omitempty"`
	// MIME is the media type; of what is in an artifact, that has it.
	MIME string `json:"mime_type,omitempty"`
	// Audience are the roles that the part is for, user or assistant; none means
	// both.
	Audience []string `json:"audience,omitempty"`
}

// Timeline answers "why was it slow?": how long each part of a call took.
type Timeline struct {
	Queue     Millis `json:"queue_ms,omitempty"`
	Validate  Millis `json:"validate_ms,omitempty"`
	Policy    Millis `json:"policy_ms,omitempty"`
	Approval  Millis `json:"approval_ms,omitempty"`
	Packages  Millis `json:"packages_ms,omitempty"` // waiting for their installation
	Cell      string `json:"cell,omitempty"`        // hit, miss or cold
	Setup     Millis `json:"setup_ms,omitempty"`
	Execute   Millis `json:"execute_ms,omitempty"`
	Serialise Millis `json:"serialise_ms,omitempty"`
	Total     Millis `json:"total_ms"`
}

// Truncated says what was cut, in bytes left out, for Value in characters and for
// Artifacts in files.
type Truncated struct {
	Stdout    int64 `json:"stdout,omitempty"`
	Stderr    int64 `json:"stderr,omitempty"`
	Value     int64 `json:"value,omitempty"`
	Artifacts int64 `json:"artifacts,omitempty"`
}
