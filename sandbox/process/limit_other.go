//go:build !linux

package process

import (
	"time"

	"haft"
)

// rssUnit is what the system counts resident memory in.
const rssUnit = 1

// processorTime returns -1: there is no clock of another process.
func processorTime(int) time.Duration { return -1 }

// limit does nothing: only Linux can set the limits of another process. The limits
// of time and output still hold.
func limit(int, haft.Limits) error { return nil }
