package redo

import (
	"encoding/binary"
	"hash/crc32"
	"os"
)

// A Head is the first block of a log.
type Head struct {
	// Epoch is that of the records.
	Epoch uint64
	// Last is the number of a record that was acknowledged. After a loss of power
	// later ones may have been too, since nobody waits for a head to be on the disk.
	Last uint64
	// Erased is up to which number the records may have been overwritten with zeros.
	Erased uint64
}

// headMagic begins a head; that of a record is another.
const headMagic = 0x68616664 // "hafd"

// writeHead writes a head. It is shorter than a sector, so a disk writes it whole or
// not at all.
func writeHead(f *os.File, h Head) error {
	var b [header]byte
	binary.LittleEndian.PutUint32(b[0:], headMagic)
	binary.LittleEndian.PutUint64(b[4:], h.Epoch)
	binary.LittleEndian.PutUint64(b[12:], h.Last)
	binary.LittleEndian.PutUint64(b[20:], h.Erased)
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	_, err := f.WriteAt(b[:], 0)
	return err
}

// parseHead reads the head that raw begins with, if it does.
func parseHead(raw []byte) (Head, bool) {
	if len(raw) < header || binary.LittleEndian.Uint32(raw) != headMagic ||
		binary.LittleEndian.Uint32(raw[28:]) != crc32.Checksum(raw[:28], castagnoli) {
		return Head{}, false
	}
	return Head{
		Epoch: binary.LittleEndian.Uint64(raw[4:]), Last: binary.LittleEndian.Uint64(raw[12:]),
		Erased: binary.LittleEndian.Uint64(raw[20:]),
	}, true
}
