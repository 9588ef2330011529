"""Everyday sentences, each with a French reference of our own.

They were not taken from a corpus, so they may be printed and committed, although a corpus may
contain one of the short sentences too. They are few, so a score on them has a wide interval.
"""

from attentively.data.pairs import Pair

_LINES = """\
I do not like milk. | Je n'aime pas le lait.
The cat drank the milk. | Le chat a bu le lait.
You are welcome. | De rien.
Where is the station? | Où est la gare ?
My brother is taller than me. | Mon frère est plus grand que moi.
We have to leave now. | Nous devons partir maintenant.
The children are playing in the garden. | Les enfants jouent dans le jardin.
I lost my keys yesterday. | J'ai perdu mes clés hier.
Can you help me? | Pouvez-vous m'aider ?
They will come tomorrow morning. | Ils viendront demain matin.
I have never been to Paris. | Je ne suis jamais allé à Paris.
What time does the train arrive? | À quelle heure le train arrive-t-il ?
I forgot to call my mother. | J'ai oublié d'appeler ma mère.
They welcomed the Queen of the United Kingdom. | Ils ont accueilli la reine du Royaume-Uni.
The water is too cold to swim. | L'eau est trop froide pour nager.
The animal did not cross the street because it was too tired. | \
L'animal n'a pas traversé la rue parce qu'il était trop fatigué.
She closed the window because it was cold outside. | \
Elle a fermé la fenêtre parce qu'il faisait froid dehors.
If I had known, I would have stayed at home. | Si j'avais su, je serais resté à la maison.
Nobody knows why the old man sold his house. | \
Personne ne sait pourquoi le vieil homme a vendu sa maison.
We looked for the small key for an hour, but it was in my bag. | \
Nous avons cherché la petite clé pendant une heure, mais elle était dans mon sac.
She wrote three long letters to her sister, who lives by the sea. | \
Elle a écrit trois longues lettres à sa sœur, qui habite au bord de la mer.
The boy who lost his shoes had to walk home in the rain. | \
Le garçon qui avait perdu ses chaussures a dû rentrer à pied sous la pluie.
It takes me twenty minutes to get to work by bicycle. | \
Il me faut vingt minutes pour aller au travail à vélo.
Do you remember the name of the street where we used to live? | \
Te souviens-tu du nom de la rue où nous habitions ?
The teacher asked them to read the first two pages again. | \
Le professeur leur a demandé de relire les deux premières pages.
My grandfather tells the same story every time we visit him. | \
Mon grand-père raconte la même histoire chaque fois que nous lui rendons visite.
There is no more bread, so I am going to the bakery. | \
Il n'y a plus de pain, alors je vais à la boulangerie.
The doctor told him that he should drink less coffee. | \
Le médecin lui a dit qu'il devrait boire moins de café."""

EVERYDAY = [Pair(*line.split(" | ")) for line in _LINES.splitlines()]
"""The pairs, the easier ones first."""
