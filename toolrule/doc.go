// Package toolrule decides which tools an agent may call next in its turn. It is
// pure: a [State] is a function of the rules, of what was called before in the
// turn and of the tools there are.
package toolrule
