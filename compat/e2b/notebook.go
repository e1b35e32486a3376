package e2b

import (
	"encoding/json"
	"strings"
)

// plainPython returns Python as notebooks know it as plain Python: a line that begins with ! or %pip is a
// command of the shell. Lines in a text of several lines are left as they are.
func plainPython(code string) string {
	if !strings.Contains(code, "!") && !strings.Contains(code, "%pip") {
		return code
	}
	lines := strings.Split(code, "\n")
	quote := "" // that of a text which is not closed yet
	for i, line := range lines {
		text := strings.TrimLeft(line, " \t")
		command, isCommand := strings.CutPrefix(text, "!")
		if strings.HasPrefix(text, "%pip ") {
			command, isCommand = text[1:], true
		}
		if quote == "" && isCommand {
			raw, err := json.Marshal(strings.TrimSpace(command)) // a text of JSON is one of Python
			if err == nil {
				lines[i] = line[:len(line)-len(text)] + `_exit_code = __import__("os").system(` + string(raw) + ")"
			}
			continue
		}
		quote = openQuote(line, quote)
	}
	return strings.Join(lines, "\n")
}

// openQuote returns the quote of a text of several lines that is open at the end of a line.
func openQuote(line, quote string) string {
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		switch {
		case line[i] == '\\':
			i++
		case quote != "" && strings.HasPrefix(rest, quote):
			i += len(quote) - 1
			quote = ""
		case quote != "":
		case line[i] == '#':
			return ""
		case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, "'''"):
			quote = rest[:3]
			i += 2
		case line[i] == '"' || line[i] == '\'':
			quote = rest[:1]
		}
	}
	if len(quote) == 1 {
		return "" // such a text ends with its line
	}
	return quote
}
