package layer

// WaitersOf returns how many wait for the build of a digest.
func (s *Store) WaitersOf(digest string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.builds[digest]; f != nil {
		return f.waiters
	}
	return 0
}

// Diagnose is diagnose.
func Diagnose(text string) Problem { return *diagnose(text) }

// NPMLock is npmLock.
func NPMLock(text []byte) ([]byte, map[string]string, error) { return npmLock(text) }

// LockOfReport is lockOfReport.
func LockOfReport(text []byte) ([]byte, error) { return lockOfReport(text) }
