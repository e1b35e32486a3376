package executor

import (
	"context"

	"haft"
)

// A Preparer is an [Executor] that can do a part of its work ahead.
type Preparer interface {
	// Prepare begins to make ready for req, which is to be executed next, and does
	// not wait for it: a cell, the source read and translated. Nothing of the tool
	// runs. Execute reports what failed.
	Prepare(ctx context.Context, req Request) Prepared
}

// A Prepared is a request that is being made ready for. Its owner calls Drop in the
// end, whatever became of it.
type Prepared interface {
	// Execute is [Executor.Execute], once, for the request of Prepare. The writers of
	// its output may have been set since.
	Execute(ctx context.Context, req Request) (*haft.Result, error)
	// Drop gives up what Execute did not use.
	Drop()
}
