package main

import (
	"io"

	"haft/internal/terminal"
)

// colour is [terminal.Colour].
type colour = terminal.Colour

// The colours in use.
const (
	bold, dim, red      = terminal.Bold, terminal.Dim, terminal.Red
	green, yellow, cyan = terminal.Green, terminal.Yellow, terminal.Cyan
)

// paint is [terminal.Paint].
func paint(w io.Writer, c colour, s string) string { return terminal.Paint(w, c, s) }

// safe is [terminal.Safe].
func safe(w io.Writer, s string) string { return terminal.Safe(w, s) }
