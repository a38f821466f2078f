package manifest

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The patterns of the Gateway API's CRDs (version 1.6.3), and how long what they
// speak of may be.
var (
	hostnamePattern   = text{253, regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)}
	precisePattern    = text{253, regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)}
	sectionPattern    = precisePattern
	kindPattern       = text{63, regexp.MustCompile(`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`)}
	namespacePattern  = text{63, regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)}
	objectNamePattern = text{253, nil}
	controllerPattern = text{253, regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$`)}
	protocolPattern   = text{255, regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]+$`)}
	headerPattern     = text{256, regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`)}
	originPattern     = text{253, regexp.MustCompile(`(^\*$)|(^(http(s)?):\/\/(((\*\.)?([a-zA-Z0-9\-]+\.)*[a-zA-Z0-9-]+|\*)(:([0-9]{1,5}))?)$)`)}
	addressPattern    = text{253, regexp.MustCompile(`^Hostname|IPAddress|NamedAddress|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$`)}
	durationPattern   = text{longestDuration, regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)}
	pathPattern       = text{longestPath, regexp.MustCompile(`^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$`)}
	labelPattern      = text{63, regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)}
	metaKeyPattern    = text{317, regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$`)}
)

const (
	longestPath = 1024
	// longestDuration is what the pattern of durations lets pass: four times 99999ms.
	longestDuration = 28
)

// text is what a string of a CRD must look like.
type text struct {
	// longest is in characters.
	longest int
	// pattern may be nil: then only emptiness is refused.
	pattern *regexp.Regexp
}

// check refuses an empty string and one that does not look like that.
func (t text) check(path *field.Path, value string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case utf8.RuneCountInString(value) > t.longest:
		return field.ErrorList{field.TooLong(path, value, t.longest)}
	case t.pattern != nil && !t.pattern.MatchString(value):
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("should match '%s'", t.pattern))}
	}
	return nil
}

// checkGroup is check for API groups, of which the empty one is the core's.
func checkGroup[T ~string](path *field.Path, group T) field.ErrorList {
	if group == "" {
		return nil
	}
	return precisePattern.check(path, string(group))
}

// checkSet checks an optional string that is set.
func checkSet[T ~string](t text, path *field.Path, value *T) field.ErrorList {
	if value == nil {
		return nil
	}
	return t.check(path, string(*value))
}

// bounded refuses lists that are too long, or empty where one item is needed.
func bounded(path *field.Path, n, least, most int) field.ErrorList {
	switch {
	case n < least:
		return field.ErrorList{field.Required(path, fmt.Sprintf("write at least %d", least))}
	case n > most:
		return field.ErrorList{field.TooMany(path, n, most)}
	}
	return nil
}

// within refuses numbers out of range.
func within[T ~int | ~int32](path *field.Path, value *T, least, most T) field.ErrorList {
	if value == nil || *value >= least && *value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be from %d to %d", least, most))}
}
