package filestore

import "time"

// SetClock replaces the clock of a store.
func SetClock(s *Store, now func() time.Time) { s.now = now }
