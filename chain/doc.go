// Package chain says what is to be done next in a chain of calls. It is pure: it
// runs nothing and keeps nothing.
package chain
