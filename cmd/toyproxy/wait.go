package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/jsonpath"
)

// waitFlags are those of kubectl wait.
type waitFlags struct {
	place    placeFlags
	forWhat  string
	timeout  time.Duration
	selector string
	all      bool
}

func waitCommand() *cobra.Command {
	var f waitFlags
	cmd := &cobra.Command{
		Use:   "wait KIND/NAME... --for CONDITION",
		Short: "Wait until objects are as they should be",
		Long: `Waits until objects exist (create), are gone (delete), have a condition
(condition=Ready, condition=Ready=False), or a value
(jsonpath='{.status.phase}'=Running).`,
		Example: `  toyproxy wait --for=condition=Ready pod/web-1 --timeout 60s
  toyproxy wait --for=condition=Available deploy/web
  toyproxy wait --for=delete pods -l app=web`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			met, err := parseCondition(f.forWhat)
			if err != nil {
				return exit(exitUsage, err)
			}
			targets, err := f.targets(args)
			if err != nil {
				return err
			}
			return f.run(cmd, targets, met)
		},
	}
	f.place.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.forWhat, "for", "", "create, delete, condition=NAME[=VALUE], or jsonpath={…}[=VALUE]")
	fl.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait for each object (0: look once)")
	fl.StringVarP(&f.selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	fl.BoolVar(&f.all, "all", false, "all objects of the kind in the namespace")
	return cmd
}

// targets are the objects that are named, or those that a selector picks now.
func (f *waitFlags) targets(args []string) ([]target, error) {
	kind, out, err := liveKinds().parse(args, f.place.namespace)
	selecting := f.all || f.selector != ""
	if err == nil && selecting == (len(out) > 0) {
		err = errors.New("name the objects, or say --all, or which with -l: one of these")
	}
	selector, bad := labels.Parse(f.selector)
	if err := errors.Join(err, bad); err != nil {
		return nil, exit(exitUsage, err)
	}
	if !selecting {
		return out, nil
	}
	for _, obj := range readLiveOf(f.place.stateDir(), kind) {
		if obj.GetNamespace() == f.place.namespace && selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, kind.named(obj.GetNamespace(), obj.GetName()))
		}
	}
	if len(out) == 0 && f.forWhat != "delete" {
		return nil, errors.New("no matching resources found")
	}
	return out, nil
}

// outcome is what a look at an object told: not yet, yes, or never.
type outcome uint8

const (
	notYet outcome = iota
	isMet
	isMissing
)

// criterion judges an object; nil is one that does not exist. first is its UID when
// the waiting began.
type criterion func(obj metav1.Object, first types.UID) (outcome, error)

func (f *waitFlags) run(cmd *cobra.Command, targets []target, met criterion) error {
	var errs []error
	for _, t := range targets {
		err := f.await(cmd, t, met)
		if err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%s condition met\n", t)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// await waits for one object.
func (f *waitFlags) await(cmd *cobra.Command, t target, met criterion) error {
	timeout := f.timeout
	if timeout < 0 {
		timeout = 0
	}
	ctx, cancel := withTimeout(cmd.Context(), timeout)
	defer cancel()
	var first types.UID
	done := false
	err := eachChange(ctx, f.place.stateDir(), nil, func() (bool, error) {
		obj, err := readLive(f.place.stateDir(), t)
		if err != nil {
			obj = nil
		} else if first == "" {
			first = obj.GetUID()
		}
		result, err := met(obj, first)
		if result == isMissing {
			err = t.notFound()
		}
		done = result == isMet
		return done || f.timeout == 0, err
	})
	if err == nil && !done {
		err = fmt.Errorf("timed out waiting for the condition on %s/%s", t.plural, t.Name)
	}
	return err
}

// parseCondition reads --for.
func parseCondition(text string) (criterion, error) {
	how, what, _ := strings.Cut(text, "=")
	switch strings.ToLower(how) {
	case "delete":
		return func(obj metav1.Object, first types.UID) (outcome, error) {
			return met(obj == nil || obj.GetUID() != first), nil
		}, nil
	case "create":
		return func(obj metav1.Object, _ types.UID) (outcome, error) { return met(obj != nil), nil }, nil
	case "condition":
		name, value, found := strings.Cut(what, "=")
		if !found {
			value = "True"
		}
		if name == "" {
			break
		}
		return existing(func(fields map[string]any) (bool, error) { return hasCondition(fields, name, value), nil }), nil
	case "jsonpath":
		return parsePathCondition(what)
	}
	return nil, fmt.Errorf("--for %q: use create, delete, condition=NAME[=VALUE], or jsonpath={…}[=VALUE]", text)
}

func met(yes bool) outcome {
	if yes {
		return isMet
	}
	return notYet
}

// existing makes a criterion of a look at the fields of an object that must exist.
func existing(look func(map[string]any) (bool, error)) criterion {
	return func(obj metav1.Object, _ types.UID) (outcome, error) {
		if obj == nil {
			return isMissing, nil
		}
		text, err := json.Marshal(obj)
		if err != nil {
			return notYet, err
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			return notYet, err
		}
		yes, err := look(fields)
		return met(yes), err
	}
}

// hasCondition looks for a condition among those of the status. What was observed of
// an older generation does not count.
func hasCondition(fields map[string]any, name, value string) bool {
	status, _ := fields["status"].(map[string]any)
	meta, _ := fields["metadata"].(map[string]any)
	generation, _ := meta["generation"].(float64)
	if observed, ok := status["observedGeneration"].(float64); ok && observed < generation {
		return false
	}
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		kind, _ := c["type"].(string)
		is, _ := c["status"].(string)
		if strings.EqualFold(kind, name) {
			return strings.EqualFold(is, value)
		}
	}
	return false
}

// parsePathCondition reads {.status.phase}=Running, or a path alone, which is met by
// any value.
func parsePathCondition(text string) (criterion, error) {
	path, value, compare := text, "", false
	if end := strings.LastIndex(text, "}="); end >= 0 {
		path, value, compare = text[:end+1], strings.Trim(text[end+2:], `"'`), true
	}
	if !strings.HasPrefix(path, "{") || !strings.HasSuffix(path, "}") {
		return nil, fmt.Errorf("--for jsonpath=%s: write the path in braces: jsonpath='{.status.phase}'=Running", text)
	}
	j := jsonpath.New("for").AllowMissingKeys(true)
	if err := j.Parse(path); err != nil {
		return nil, fmt.Errorf("--for jsonpath=%s: %w", text, err)
	}
	return existing(func(fields map[string]any) (bool, error) {
		results, err := j.FindResults(fields)
		if err != nil || len(results) == 0 || len(results[0]) == 0 {
			return false, err
		}
		if !compare {
			return true, nil
		}
		var out bytes.Buffer
		if err := j.PrintResults(&out, results[0]); err != nil {
			return false, err
		}
		return strings.TrimSpace(out.String()) == value, nil
	}), nil
}
