// Command dnscluster makes a large cluster for benchmarks of DNS servers: the same
// objects as a state directory, for toyproxy dns, and as an API server that lists them,
// for CoreDNS. It also writes the questions, in the form that dnsperf reads.
//
//	dnscluster -services 10000 -state DIR -queries FILE -listen 127.0.0.1:8001
//
// It prints a line when all is there, and then answers until it is killed. It judges
// nothing and measures nothing: scripts/bench.d/dns does.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// namespaces is how many the Services are spread over.
const namespaces = 50

// world is all objects, as lists of an API server.
type world struct {
	namespaces corev1.NamespaceList
	services   corev1.ServiceList
	slices     discoveryv1.EndpointSliceList
	pods       corev1.PodList
}

func main() {
	services := flag.Int("services", 10000, "how many")
	endpoints := flag.Int("endpoints", 2, "how many a Service")
	stateDir := flag.String("state", "", "state directory to write")
	queries := flag.String("queries", "", "file of questions to write")
	listen := flag.String("listen", "127.0.0.1:8001", "where the API is served")
	flag.Parse()
	w := makeWorld(*services, *endpoints)
	if err := errors.Join(w.save(*stateDir), w.ask(*queries)); err != nil {
		fmt.Fprintln(os.Stderr, "dnscluster:", err)
		os.Exit(1)
	}
	fmt.Printf("%d Services, %d endpoints\n", len(w.services.Items), len(w.pods.Items))
	fmt.Fprintln(os.Stderr, "dnscluster:", http.ListenAndServe(*listen, w.api()))
	os.Exit(1)
}

func makeWorld(services, endpoints int) *world {
	w := &world{}
	for i := range namespaces {
		w.namespaces.Items = append(w.namespaces.Items, corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: meta("", fmt.Sprintf("team-%d", i))})
	}
	for i := range services {
		w.add(i, endpoints)
	}
	return w
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1", Labels: map[string]string{"app": name}}
}

// add adds a Service, its slice and its Pods.
func (w *world) add(i, endpoints int) {
	namespace, name := fmt.Sprintf("team-%d", i%namespaces), fmt.Sprintf("service-%d", i)
	ip := fmt.Sprintf("10.%d.%d.%d", 96+i/62500, i/250%250, i%250+1)
	ready, port, portName, proto := true, int32(8080), "http", corev1.ProtocolTCP
	single := corev1.IPFamilyPolicySingleStack
	w.services.Items = append(w.services.Items, corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta(namespace, name),
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, Selector: map[string]string{"app": name},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &single,
			Ports: []corev1.ServicePort{{Name: portName, Port: 80, Protocol: proto}}}})
	slice := discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, ObjectMeta: meta(namespace, name+"-abcde"),
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &proto}}}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	for j := range endpoints {
		n := i*endpoints + j
		podIP := fmt.Sprintf("10.%d.%d.%d", 128+n/62500, n/250%250, n%250+1)
		pod := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta(namespace, fmt.Sprintf("%s-%d", name, j)),
			Spec:   corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "example.org/app:1"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}}}}
		w.pods.Items = append(w.pods.Items, pod)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{podIP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod.Name}})
	}
	w.slices.Items = append(w.slices.Items, slice)
}

// save writes the objects into a state directory.
func (w *world) save(dir string) error {
	return errors.Join(
		saveAll(state.Open(dir, "namespaces", func() *corev1.Namespace { return nil }), w.namespaces.Items),
		saveAll(state.Open(dir, "services", func() *corev1.Service { return nil }), w.services.Items),
		saveAll(state.Open(dir, "endpointslices", func() *discoveryv1.EndpointSlice { return nil }), w.slices.Items),
		saveAll(state.Open(dir, "pods", func() *corev1.Pod { return nil }), w.pods.Items))
}

func saveAll[T any, P interface {
	*T
	metav1.Object
}](dir state.Dir[P], items []T) error {
	for i := range items {
		if _, err := dir.Save(P(&items[i])); err != nil {
			return err
		}
	}
	return nil
}

// ask writes one question for the address of each Service.
func (w *world) ask(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	for i := range w.services.Items {
		s := &w.services.Items[i*7919%len(w.services.Items)] // in no order that helps anybody
		fmt.Fprintf(out, "%s.%s.svc.cluster.local A\n", s.Name, s.Namespace)
	}
	return errors.Join(out.Flush(), f.Close())
}

// api answers what CoreDNS asks of an API server: lists, and watches in which nothing
// happens.
func (w *world) api() http.Handler {
	w.namespaces.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}
	w.services.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}
	w.pods.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}
	w.slices.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}
	for _, l := range []*metav1.ListMeta{&w.namespaces.ListMeta, &w.services.ListMeta, &w.pods.ListMeta, &w.slices.ListMeta} {
		l.ResourceVersion = "1"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/namespaces", list(&w.namespaces))
	mux.HandleFunc("/api/v1/services", list(&w.services))
	mux.HandleFunc("/api/v1/pods", list(&w.pods))
	mux.HandleFunc("/apis/discovery.k8s.io/v1/endpointslices", list(&w.slices))
	mux.HandleFunc("/version", func(r http.ResponseWriter, _ *http.Request) {
		answer(r, map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
	})
	return mux
}

func list(objects any) http.HandlerFunc {
	return func(r http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Query().Get("sendInitialEvents") == "true":
			r.WriteHeader(http.StatusUnprocessableEntity)
			answer(r, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		case strings.HasPrefix(q.URL.Query().Get("watch"), "t") || q.URL.Query().Get("watch") == "1":
			r.Header().Set("Content-Type", "application/json")
			r.WriteHeader(http.StatusOK)
			r.(http.Flusher).Flush()
			<-q.Context().Done()
		default:
			answer(r, objects)
		}
	}
}

func answer(r http.ResponseWriter, what any) {
	r.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(r).Encode(what) // who went away misses nothing
}
