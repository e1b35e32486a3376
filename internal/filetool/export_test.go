package filetool

import (
	"time"

	"haft/executor/builtin"
	"haft/internal/workspace"
)

// AddWithin is [Add] with another bound of the time that a call may read.
func AddWithin(s *builtin.Set, store *workspace.Store, most time.Duration) error {
	return tools{store, most}.add(s)
}
