// Package jsontree reads and writes JSON whose objects remember the order of their keys.
//
// It has the one reader of JSON that comes from models, tools and users: it bounds what it
// reads before it does, refuses what two readers would understand differently, and says
// where a text is wrong without quoting it.
package jsontree
