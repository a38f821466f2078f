package agent

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// spreadPod reads "web-1", "web-1@a" (placed by its manifest), "web-1!" (of
// somebody else); its label is what stands before the dash.
func spreadPod(text string) *corev1.Pod {
	text, foreign := strings.CutSuffix(text, "!")
	name, node, _ := strings.Cut(text, "@")
	app, _, _ := strings.Cut(name, "-")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: node}}
	if foreign {
		p.Status.PodIP = "10.9.9.9"
	}
	return p
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct{ name, pods, at, want string }{
		{"alike apart", "web-1 web-2 web-3 web-4", "", "web-1@a web-2@b web-3@c web-4@a"},
		{"the order of the manifests does not count", "web-3 web-1 web-2", "", "web-1@a web-2@b web-3@c"},
		{"the emptiest node", "web-1@a web-2@b db-1", "", "db-1@c web-1@a web-2@b"},
		{"those alike before the number", "db-1@a db-2@a web-1@b web-2", "", "db-1@a db-2@a web-1@b web-2@c"},
		{"where they are", "web-0 web-1 web-2", "web-1@a web-2@b", "web-0@c web-1@a web-2@b"},
		{"not where no node is any more", "web-1 web-2", "web-1@z web-2@a", "web-1@b web-2@a"},
		{"the manifest before where it is", "web-1@b", "web-1@a", "web-1@b"},
		{"somebody else's", "web-1! web-2", "", "web-1@ web-2@a"},
		{"a node that is none", "web-1@z web-2", "", "web-2@a"},
	} {
		var pods []*corev1.Pod
		for word := range strings.FieldsSeq(tc.pods) {
			pods = append(pods, spreadPod(word))
		}
		at := map[types.NamespacedName]string{}
		for word := range strings.FieldsSeq(tc.at) {
			name, node, _ := strings.Cut(word, "@")
			at[types.NamespacedName{Namespace: "default", Name: name}] = node
		}
		placed, problems := Spread(pods, []string{"a", "b", "c"}, at, nil)
		var got []string
		for _, p := range placed {
			got = append(got, p.Name+"@"+p.Spec.NodeName)
		}
		if !slices.Equal(got, strings.Fields(tc.want)) {
			t.Errorf("%s: %v, want %s", tc.name, got, tc.want)
		}
		if lost := len(pods) - len(placed); lost != len(problems) || lost > 0 && problems[0].Warning {
			t.Errorf("%s: %d Pods left out, problems %v", tc.name, lost, problems)
		}
	}
}
