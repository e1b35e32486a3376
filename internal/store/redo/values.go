package redo

import (
	"encoding/binary"
	"errors"
	"math"
)

// The kinds of values.
const (
	valueNull byte = iota
	valueText
	valueInt
	valueFloat
)

// ErrValues says that bytes are not a list of values, or that a value is of another type.
var ErrValues = errors.New("the rows cannot be read")

// AppendValues encodes values of columns behind what is in b: nil, string, int64 and float64.
func AppendValues(b []byte, values []any) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(values)))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, valueNull)
		case string:
			b = binary.AppendUvarint(append(b, valueText), uint64(len(v)))
			b = append(b, v...)
		case int64:
			b = binary.AppendVarint(append(b, valueInt), v)
		case float64:
			b = binary.LittleEndian.AppendUint64(append(b, valueFloat), math.Float64bits(v))
		default:
			return nil, ErrValues
		}
	}
	return b, nil
}

// ReadValues is the inverse of AppendValues. It returns what follows the values, too.
func ReadValues(b []byte) (values []any, rest []byte, err error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)) {
		return nil, nil, ErrValues
	}
	b = b[used:]
	for range n {
		v, rest, err := readValue(b)
		if err != nil {
			return nil, nil, err
		}
		values, b = append(values, v), rest
	}
	return values, b, nil
}

// readValue reads one value and returns what follows it.
func readValue(b []byte) (any, []byte, error) {
	if len(b) == 0 {
		return nil, nil, ErrValues
	}
	kind, b := b[0], b[1:]
	switch kind {
	case valueNull:
		return nil, b, nil
	case valueText:
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return nil, nil, ErrValues
		}
		b = b[used:]
		return string(b[:n]), b[n:], nil
	case valueInt:
		v, used := binary.Varint(b)
		if used <= 0 {
			return nil, nil, ErrValues
		}
		return v, b[used:], nil
	case valueFloat:
		if len(b) < 8 {
			return nil, nil, ErrValues
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:], nil
	}
	return nil, nil, ErrValues
}
