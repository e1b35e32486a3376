package vault

// OwnMaster finds or makes the key of a directory, ParseMaster reads one.
func OwnMaster(path string, kept bool) ([]byte, error) {
	m, err := ownMaster(path, kept)
	return m.key, err
}

// ParseMaster reads a master key.
func ParseMaster(text []byte) ([]byte, error) { return parseMaster(text) }
