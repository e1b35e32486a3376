//go:build !race

package skiptest

// Race says that the race detector is on: what only computes takes up to a hundred times as long, and should
// compute less.
const Race = false
