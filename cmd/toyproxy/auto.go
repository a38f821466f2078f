package main

import (
	"context"
	"os"
	"time"

	"github.com/toyproxy/toyproxy/doctor"
)

// chooseLimit is how long the examination of a machine may take.
const chooseLimit = 20 * time.Second

// choose replaces auto by the backend that it stands for and says why; it says
// nothing when the user has chosen, now or before: used is the backend of the last
// sync of the node, and stays.
func (b *backendName) choose(used string) (why string) {
	if *b != backendAuto {
		return ""
	}
	if used != "" {
		*b = backendName(used)
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), chooseLimit)
	defer cancel()
	name, why := doctor.Choose(ctx, os.Geteuid() == 0)
	*b = backendName(name)
	return why
}
