// An informer on a namespace's ConfigMaps and a candidate for a Lease, as controllers have them, that says
// in lines of JSON what it lists, watches and believes. It ends when its standard input does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Line is one thing that happened. What says which; other fields are empty where they mean nothing.
type Line struct {
	What    string            `json:"what"`
	Name    string            `json:"name,omitempty"`
	Version string            `json:"version,omitempty"`
	Initial bool              `json:"initial,omitempty"`
	Objects map[string]string `json:"objects,omitempty"`
	Detail  string            `json:"detail,omitempty"`
}

var printing sync.Mutex

func say(line Line) {
	printing.Lock()
	defer printing.Unlock()
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func main() {
	config := flag.String("kubeconfig", "", "file")
	namespace := flag.String("namespace", "default", "whose ConfigMaps")
	identity := flag.String("identity", "", "candidate's name; none without")
	longest := flag.Int("watch-seconds", 5, "after at most so many a watch is asked to end")
	flag.Parse()
	settings, err := clientcmd.BuildConfigFromFlags("", *config)
	if err != nil {
		panic(err)
	}
	settings.QPS = -1
	client := kubernetes.NewForConfigOrDie(settings)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	informer := cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(told(client, *namespace, *longest), client),
		&corev1.ConfigMap{}, 0, cache.Indexers{},
	)
	if _, err := informer.AddEventHandler(handler()); err != nil {
		panic(err)
	}
	running.Go(func() { informer.RunWithContext(ctx) })
	if *identity != "" {
		running.Go(func() { lead(ctx, settings, *namespace, *identity) })
	}
	// Each line asks what is believed now.
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		objects := map[string]string{}
		for _, one := range informer.GetStore().List() {
			found := one.(*corev1.ConfigMap)
			objects[found.Name] = found.ResourceVersion
		}
		say(Line{What: "believes", Objects: objects})
	}
	cancel()
	running.Wait()
}

// told lists and watches as clients do, and says what came over the wire.
func told(client kubernetes.Interface, namespace string, longest int) *cache.ListWatch {
	maps := client.CoreV1().ConfigMaps(namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, err := maps.List(ctx, options)
			if err == nil && found.Continue == "" && options.Continue == "" {
				objects := map[string]string{}
				for _, one := range found.Items {
					objects[one.Name] = one.ResourceVersion
				}
				say(Line{What: "LIST", Version: found.ResourceVersion, Objects: objects})
			}
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			seconds := int64(1 + rand.IntN(longest))
			options.TimeoutSeconds = &seconds
			initial := options.SendInitialEvents != nil && *options.SendInitialEvents
			say(Line{What: "WATCH", Version: options.ResourceVersion, Initial: initial})
			watching, err := maps.Watch(ctx, options)
			if err != nil {
				say(Line{What: "ERROR", Detail: err.Error()})
				return nil, err
			}
			return watch.Filter(watching, func(event watch.Event) (watch.Event, bool) {
				say(line(event))
				return event, true
			}), nil
		},
	}
}

func line(event watch.Event) Line {
	if event.Type == watch.Error {
		status, _ := event.Object.(*metav1.Status)
		return Line{What: "ERROR", Detail: fmt.Sprint(status.Code, " ", status.Message)}
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		panic(err)
	}
	initial := object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	return Line{
		What: string(event.Type), Name: object.GetName(), Version: object.GetResourceVersion(), Initial: initial,
	}
}

// handler says what a controller is told.
func handler() cache.ResourceEventHandler {
	tell := func(what string, object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		found := object.(*corev1.ConfigMap)
		say(Line{What: what, Name: found.Name, Version: found.ResourceVersion})
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("added", object) },
		UpdateFunc: func(_, object any) { tell("updated", object) },
		DeleteFunc: func(object any) { tell("deleted", object) },
	}
}

// lead stands for the Lease again and again.
func lead(ctx context.Context, settings *rest.Config, namespace, identity string) {
	for ctx.Err() == nil {
		lock, err := resourcelock.NewFromKubeconfig(
			resourcelock.LeasesResourceLock, namespace, "leader-go",
			resourcelock.ResourceLockConfig{Identity: identity}, settings, 2*time.Second,
		)
		if err != nil {
			panic(err)
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second,
			RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { say(Line{What: "leads", Name: identity}) },
				OnStoppedLeading: func() { say(Line{What: "leads no more", Name: identity}) },
			},
		})
	}
}
