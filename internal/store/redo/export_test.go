package redo

// ContentOf finds the head and the records in the bytes of a file.
func ContentOf(raw []byte, epoch, after uint64) Content { return content(raw, epoch, after) }
