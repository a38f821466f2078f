package manifest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The checks below are those of kube-apiserver 1.37 at creation. They run on
// defaulted objects. Where they are stricter, a comment says why.

// checkMeta validates what all objects have.
func checkMeta(m *metav1.ObjectMeta, namespaced bool, name apivalidation.ValidateNameFunc) field.ErrorList {
	path := field.NewPath("metadata")
	if m.Name == "" {
		// A generated name would change with each pass.
		return field.ErrorList{field.Required(path.Child("name"), "give the object a name (generateName is for API servers)")}
	}
	return apivalidation.ValidateObjectMeta(m, namespaced, name, path)
}

// invalid makes errors of the answers of util/validation: one text a fault.
func invalid[T any](path *field.Path, value T, texts []string) (errs field.ErrorList) {
	for _, text := range texts {
		errs = append(errs, field.Invalid(path, value, text))
	}
	return errs
}

// oneOf refuses a value that is not among the known ones.
func oneOf[T ~string](path *field.Path, value T, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

func checkProtocol(path *field.Path, p corev1.Protocol) field.ErrorList {
	return oneOf(path, p, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
}

func checkPortNumber(path *field.Path, port int32) field.ErrorList {
	return invalid(path, port, validation.IsValidPortNum(int(port)))
}

// seenBefore refuses the second use of a key.
func seenBefore[K comparable](seen map[K]bool, key K, path *field.Path, value any) field.ErrorList {
	if seen[key] {
		return field.ErrorList{field.Duplicate(path, value)}
	}
	seen[key] = true
	return nil
}

// lists joins the errors of several checks in their order.
func lists(lists ...field.ErrorList) field.ErrorList { return slices.Concat(lists...) }
