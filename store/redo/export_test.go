package redo

// Records finds the records in the bytes of a file.
func Records(raw []byte, epoch, after uint64) ([]Record, error) { return records(raw, epoch, after) }
