// Package top is the live table of Services: what each carries now, and how its
// endpoints share it.
//
//	meter.Lines ──▶ Sample ──▶ Rows ──▶ Text, JSON      once
//	                              └───▶ Model.View      again and again
//
// Rows turns what an interval has carried into rates; Model is the table on a screen:
// Press and Show give another model, View says what the screen shows. All of it is
// pure. Who takes samples, and has the terminal, is cmd/toyproxy: by golang.org/x/term
// alone, since the larger libraries question the terminal whenever a program that
// has them begins, whatever the command, and wait five seconds for one that is silent.
package top
