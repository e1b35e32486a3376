package engine

import (
	"context"
	"encoding/json"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/callenv"
	"haft/internal/egress/route"
	"haft/internal/jsontree"
	"haft/internal/limit"
	"haft/internal/observe"
	"haft/internal/orgconfig"
	"haft/internal/outgoing"
	"haft/internal/registry"
	"haft/internal/store"
	"haft/policy"
	"haft/schema"
)

// An execution is one call on its way through the pipeline. One goroutine has it. Its
// fields are grouped by the stage that sets them.
type execution struct {
	call     haft.Call // as it came, with its id
	rec      haft.Record
	env      callenv.Env // set when it comes in; resolve and fetch add to it
	trace    Span
	timeline haft.Timeline
	notices  []string

	arrival
	resolution
	verdict
	slots
	toolRun
	outcome
	tracking
}

// arrival is how a call came in. It is set by enter, or when a kept call is taken up again.
type arrival struct {
	began    time.Time
	seen     int64      // how many changes of permissions there were when it came in
	ours     bool       // its id was made here
	sure     bool       // nothing is kept of it but by this execution
	async    bool       // nobody waits: it was submitted, or goes on after an approval
	accepted bool       // it is in the store, to be run by whoever owns it
	free     bool       // of what was kept: no request for approval is asked for
	confirm  bool       // its credential has to be looked at again before anything else
	probe    bool       // nothing runs: it is only asked whether it may
	refusing bool       // a person refuses it: its files need not be there
	explains bool       // it only asks what would be decided, and runs nothing
	refused  error      // why it may not be made, if that is known already
	claimed  *store.Key // its idempotency key
	depth    int        // of fallbacks, and of calls that calls make
	parent   *execution // that made it and waits for it
}

// resolution is what resolve finds.
type resolution struct {
	agent *haft.Agent
	tool  *registry.Compiled
	place orgconfig.Choice // the sandbox that it runs in, with what the organisation says of it
}

// verdict is what authorize, validate and approve decide.
type verdict struct {
	read     readArguments
	rules    *policy.Policy
	decision policy.Decision
	decided  jsontree.Document // the arguments that decision is for
	args     json.RawMessage   // as they will run
	fileArgs []executor.FileArg
	tree     *schema.Object // args as a tree; nil if it has to be read again
	approval *haft.Approval // that lets it run, or that it waits for
	unlock   func()         // of the agent's turn
}

// slots are what limit takes.
type slots struct {
	taken []limit.State // to be kept with the record
	grant *limit.Grant
	keys  []string // of slots that it holds
}

// toolRun is what execute has while the tool runs.
type toolRun struct {
	begun       bool          // the record says that it runs
	before      int           // how many notices there were when it began: none is of the tool
	session     route.Session // its egress route, while it runs
	here        *route.Local
	connections []route.Connection
	network     haft.Usage // of the connections
	touched     observe.Record
	held        *outgoing.Held // progress that waits for the filters
}

// outcome is what execute and check leave behind, and what leave returns.
type outcome struct {
	res      *haft.Result
	screened *haft.Result // the result that was held against the filters
	result   *haft.Result // with err, what the caller is told; set before done is closed
	err      error
	// recovered is the failure in place of which there is another result.
	recovered *haft.Failure
}

// tracking is what others than its goroutine use of an execution.
type tracking struct {
	asked   haft.Call       // call as it came; it does not change once others know of the execution
	pinned  string          // the version that the caller named; set with asked
	owner   string          // the name that this process had when it was started
	phase   int             // guarded by callTable.mu
	final   json.RawMessage // args, once they do not change any more; guarded by callTable.mu
	granted grant           // what it runs with; guarded by callTable.mu
	stop    context.CancelFunc
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when result and err are there
	// cancelled says that somebody cancelled the call, whatever else ended its context; guarded by callTable.mu.
	cancelled bool
}

// The phases of an execution, between which one goroutine decides.
const (
	phaseWaits  = iota // it has not begun, and can be left to others
	phaseBegins        // it is being written down that it runs
	phaseLeft          // it is left to others
)
