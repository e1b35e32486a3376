package egress_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"testing"
)

// echList makes a list with one key for encrypted hellos, so that crypto/tls
// sends one.
func echList(t *testing.T) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pub := key.PublicKey().Bytes()
	body := []byte{1, 0, 0x20} // id, DHKEM(X25519)
	body = binary.BigEndian.AppendUint16(body, uint16(len(pub)))
	body = append(body, pub...)
	body = append(body, 0, 4, 0, 1, 0, 1) // HKDF-SHA256, AES-128-GCM
	body = append(body, 0, byte(len("api.example")))
	body = append(body, "api.example"...)
	body = append(body, 0, 0)
	cfg := binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(body)))
	cfg = append(cfg, body...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(cfg))), cfg...)
}
