// Package top is the live table of Services: what each carries now, and how its
// endpoints share it.
//
//	meter.Lines ──▶ Sample ──▶ Rows ──▶ Text, JSON      once
//	                              └───▶ Model.View      again and again
//
// Rows turns what an interval has carried into rates; Model is the table in a
// terminal, in the manner of bubbletea: Update takes keys and samples, View says what
// the screen shows. All of it is pure. Who takes samples, and runs the terminal, is
// cmd/toyproxy.
package top
