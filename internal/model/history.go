package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/internal/bounds"
	"haft/schema"
)

// A rendering is what the formats need to write a request.
type rendering struct {
	Request
	tools        json.RawMessage // nil if there are none
	server, host string
	history      []turn
}

// A turn is what one side says. No two of users follow each other.
type turn struct {
	assistant bool
	// texts are of a user, one for each message.
	texts []string
	// The others are of an assistant.
	text, reasoning string
	calls           []call
	pieces          []piece // the text and all calls, with what the vendor wants back
}

// A call is one of an assistant, with its answer.
type call struct {
	id, name string
	args     json.RawMessage // an object
	answer   string
	images   []haft.MessageImage
	failed   bool
	answered bool
}

// What is said where there is nothing to say.
const (
	interrupted = "the call was interrupted, and whether it ran is not known"
	noOutput    = "(no output)"
	earlier     = "(Earlier messages are not shown.)"
	goOn        = "Continue."
)

// A place is that of a call in a history.
type place struct{ turn, call int }

// history makes a conversation into turns that any vendor takes. See the comment of the package for what holds.
func history(messages []haft.Message, server string) []turn {
	var turns []turn
	places := map[string]place{} // of calls, by the ids of their models; the last call with an id counts
	taken := map[string]bool{}
	say := func(text string) {
		if strings.TrimSpace(text) == "" {
			return
		}
		if n := len(turns); n == 0 || turns[n-1].assistant {
			turns = append(turns, turn{})
		}
		last := &turns[len(turns)-1]
		last.texts = append(last.texts, text)
	}
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case haft.RoleUser:
			if m.Name != "" && strings.TrimSpace(m.Text) != "" {
				say("[message from the agent " + fitName(m.Name) + "]\n" + m.Text)
			} else {
				say(m.Text)
			}
		case haft.RoleSummary:
			say("[summary of the conversation so far]\n" + m.Text)
		case haft.RoleAssistant:
			t := assistantTurn(m, server, taken)
			for k, c := range m.Calls {
				places[c.ID] = place{len(turns), k}
			}
			if strings.TrimSpace(t.text) != "" || len(t.calls) > 0 {
				turns = append(turns, t)
			}
		case haft.RoleTool:
			at, ok := places[m.Answers]
			if ok && !turns[at.turn].calls[at.call].answered {
				c := &turns[at.turn].calls[at.call]
				c.answered, c.answer, c.images = true, m.Text, withData(m.Images)
				c.failed = m.Status != "" && m.Status != haft.StatusSuccess && m.Status.Final()
			} else { // the call is not in the conversation any more, or had an answer before it ended
				say("[result of an earlier call of " + fitName(m.Name) + "]\n" + m.Text)
			}
		}
	}
	for i := range turns {
		for k := range turns[i].calls {
			switch c := &turns[i].calls[k]; {
			case !c.answered:
				c.answer, c.failed = interrupted, true
			case strings.TrimSpace(c.answer) == "":
				c.answer = noOutput
			}
		}
	}
	return turns
}

// assistantTurn returns what a message of an assistant says. taken are the ids of all calls before.
func assistantTurn(m *haft.Message, server string, taken map[string]bool) turn {
	t := turn{assistant: true, text: m.Text, reasoning: m.Reasoning}
	var kept opaque
	if json.Unmarshal(m.Opaque, &kept) != nil || kept.Server != server {
		kept = opaque{}
	}
	for _, c := range m.Calls {
		id := c.ID
		for n := 0; id == "" || taken[id] || kept.Server == "" && !plainID(id); n++ {
			sum := sha256.Sum256([]byte(c.ID + "\x00" + strconv.Itoa(n)))
			id = "call_" + hex.EncodeToString(sum[:12])
		}
		taken[id] = true
		t.calls = append(t.calls, call{id: id, name: fitName(c.Tool), args: argumentObject(c)})
	}
	// Every piece once, in the order in which it was sent, and those that have none at the end.
	seenText, seen := strings.TrimSpace(t.text) == "", make([]bool, len(t.calls))
	for _, p := range kept.Pieces {
		switch {
		case p.Text && seenText, p.Call < 0 || p.Call > len(seen) || p.Call > 0 && seen[p.Call-1]:
			continue
		case p.Text:
			seenText = true
		case p.Call > 0:
			seen[p.Call-1] = true
		}
		t.pieces = append(t.pieces, p)
	}
	if !seenText {
		t.pieces = append(t.pieces, piece{Text: true})
	}
	for i, ok := range seen {
		if !ok {
			t.pieces = append(t.pieces, piece{Call: i + 1})
		}
	}
	// Vendors refuse reasoning that nothing follows.
	for n := len(t.pieces); n > 0 && !t.pieces[n-1].Text && t.pieces[n-1].Call == 0; n-- {
		t.pieces = t.pieces[:n-1]
	}
	return t
}

// plainID reports whether an id is one that every vendor takes. 40 characters are what OpenAI takes.
func plainID(id string) bool {
	return id != "" && len(id) <= 40 && strings.Trim(id, nameCharacters) == ""
}

// nameCharacters are those that every vendor takes in the name of a tool and in the id of a call.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// fitName makes a name that a model invented into one that every vendor takes. Names of tools stay what they are.
func fitName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && strings.ContainsRune(nameCharacters, r) {
			return r
		}
		return '_'
	}, name)
	if name == "" || name[0] == '-' || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name // Gemini wants a letter or _ at the start
	}
	return name[:min(len(name), haft.MaxToolName)]
}

// The bounds of arguments that are sent back.
const (
	maxNesting   = 20   // readers of protocol buffers refuse a request that nests deeper than 100, at 3 levels for each
	maxMalformed = 2000 // bytes of arguments that could not be read
)

// argumentObject returns the arguments of a call as an object, which is all that vendors take. What is none stands in
// one, so that the model sees what it wrote.
func argumentObject(c haft.ToolCall) json.RawMessage {
	args := bytes.TrimSpace(c.Args)
	switch {
	case len(args) == 0 || string(args) == "null":
		return json.RawMessage("{}")
	case args[0] == '{' && json.Valid(args) && bounds.Check(args, bounds.Limits{Depth: maxNesting}, nil) == nil:
		return args
	}
	var text string
	if json.Unmarshal(args, &text) != nil {
		text = string(args)
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxMalformed)], "")
	wrapped, err := schema.Encode(object{"unreadable_arguments": text})
	if err != nil { // not reached: a text can be written
		return json.RawMessage("{}")
	}
	return wrapped
}

// A message is one of a vendor that has a role and a list of parts.
type message struct {
	role  string
	parts []any
}

// alternate adds parts to messages, to the last one if it has the same role.
func alternate(messages []message, role string, parts ...any) []message {
	if len(parts) == 0 {
		return messages
	}
	if n := len(messages); n > 0 && messages[n-1].role == role {
		messages[n-1].parts = append(messages[n-1].parts, parts...)
		return messages
	}
	return append(messages, message{role, parts})
}

// alternating writes a history as messages whose roles alternate, which begin and end with one of the user. Answers to
// calls are parts of the user. Each is written by a function of the format. beside, if it is not nil, writes what
// stands behind the answers to the calls of a turn.
func alternating(turns []turn, assistant string, text func(string) any, said func(turn) []any, answer func(call) any,
	beside func(turn) []any) []message {
	var messages []message
	if len(turns) == 0 || turns[0].assistant {
		messages = alternate(messages, "user", text(earlier))
	}
	for _, t := range turns {
		if !t.assistant {
			for _, s := range t.texts {
				messages = alternate(messages, "user", text(s))
			}
			continue
		}
		messages = alternate(messages, assistant, said(t)...)
		for _, c := range t.calls {
			messages = alternate(messages, "user", answer(c))
		}
		if beside != nil {
			messages = alternate(messages, "user", beside(t)...)
		}
	}
	if messages[len(messages)-1].role != "user" { // Gemini, and Claude from 4.6 on, refuse to go on after themselves
		messages = alternate(messages, "user", text(goOn))
	}
	return messages
}
