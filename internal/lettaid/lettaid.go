// Package lettaid writes the ids of agents and tools as Letta's, and reads them back.
package lettaid

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"haft"
)

// The words that Letta's ids begin with.
const (
	ToolWord  = "tool-"
	AgentWord = "agent-"
)

// The beginnings of our ids that end with [haft.RandomID] characters.
const (
	ToolPrefix  = "tool."
	AgentPrefix = "ag_"
)

// Tool is Letta's id of a tool.
func Tool(id haft.ToolID) string { return Write(ToolWord, ToolPrefix, string(id)) }

// Agent is Letta's id of an agent.
func Agent(id haft.AgentID) string { return Write(AgentWord, AgentPrefix, string(id)) }

// AgentFor is the id of an agent as a tool with these settings is told it.
func AgentFor(s haft.Settings, id haft.AgentID) string {
	if s.Letta {
		return Agent(id)
	}
	return string(id)
}

// AddEnv adds the variables of Letta to the environment of a tool, which has ours. Callers may set variables of these
// names, and a tool must not take what they say for the agent of the call.
func AddEnv(env map[string]string) {
	env["LETTA_TOOL_ID"] = Tool(haft.ToolID(env["HAFT_TOOL_ID"]))
	delete(env, "LETTA_AGENT_ID")
	if id, ok := env["HAFT_AGENT_ID"]; ok {
		env["LETTA_AGENT_ID"] = Agent(haft.AgentID(id))
	}
}

// alphabet is that of random ids, RFC 4648 base32.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// half is how many characters go into one half of a UUID: 60 bits.
const half = haft.RandomID / 2

// fromDigest is the bit that marks UUIDs made from a digest. It is 0 in all others.
const fromDigest = 1 << 60

// uuid writes 60 bits and 62 bits as a UUID of version 4 (RFC 9562 5.4): that is
// what Letta's own checks accept.
func uuid(high, low uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], high>>12<<16|4<<12|high&0xfff)
	binary.BigEndian.PutUint64(b[8:], 1<<63|low&(1<<62-1))
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// parseUUID reads what uuid wrote.
func parseUUID(s string) (high, low uint64, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return 0, 0, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 || b[6]>>4 != 4 || b[8]>>6 != 2 {
		return 0, 0, false
	}
	h, l := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	return h>>16<<12 | h&0xfff, l & (1<<62 - 1), true
}

// bits reads half an id.
func bits(text string) (n uint64, ok bool) {
	for _, c := range []byte(text) {
		i := strings.IndexByte(alphabet, c)
		if i < 0 {
			return 0, false
		}
		n = n<<5 | uint64(i)
	}
	return n, len(text) == half
}

// text is the reverse of bits.
func text(n uint64) string {
	var b [half]byte
	for i := half - 1; i >= 0; i-- {
		b[i] = alphabet[n&31]
		n >>= 5
	}
	return string(b[:])
}

// Digest is an id that is made of what it names.
func Digest(word string, parts ...string) string {
	sum := sha256.Sum256([]byte(word + "\x00" + strings.Join(parts, "\x00")))
	return word + uuid(binary.BigEndian.Uint64(sum[:8])>>4, binary.BigEndian.Uint64(sum[8:16])>>4|fromDigest)
}

// Write writes one of our ids, which begins with prefix, as one of Letta's, which begins with word.
func Write(word, prefix, id string) string {
	if rest, ok := strings.CutPrefix(id, prefix); ok && len(rest) == haft.RandomID {
		high, ok1 := bits(rest[:half])
		low, ok2 := bits(rest[half:])
		if ok1 && ok2 {
			return word + uuid(high, low)
		}
	}
	return Digest(word, id)
}

// Read reads an id that Write wrote, or one of ours. Digested says that it is the digest of one.
func Read(word, prefix, s string) (id string, digested, ok bool) {
	if rest, ours := strings.CutPrefix(s, prefix); ours && prefix != "" && len(rest) == haft.RandomID {
		_, ok1 := bits(rest[:half])
		_, ok2 := bits(rest[half:])
		return s, false, ok1 && ok2
	}
	rest, ok := strings.CutPrefix(s, word)
	if !ok {
		return "", false, false
	}
	high, low, ok := parseUUID(rest)
	switch {
	case !ok:
		return "", false, false
	case low >= fromDigest:
		return "", true, true
	}
	return prefix + text(high) + text(low), false, true
}
