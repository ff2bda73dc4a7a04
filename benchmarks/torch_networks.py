"""The ten networks of docs/performance.md in PyTorch, with seeded random weights.

Most come from torchvision, where it is installed; the others are written here: BERT base (Devlin et al. 2018), a
ResNet-101 with IBN-a blocks (Pan et al. 2018) and squeeze-and-excitation (Hu et al. 2018), and two bidirectional
layers of LSTM.
"""
import torch
from torch import nn
from torch.nn import functional


class BertLayer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.grow, self.shrink = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm_attention, self.norm_hidden = nn.LayerNorm(width), nn.LayerNorm(width)

    def split(self, x):
        batch, tokens, width = x.shape
        return x.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        attended = (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)
        x = self.norm_attention(x + self.mix(attended))
        return self.norm_hidden(x + self.shrink(functional.gelu(self.grow(x))))


class BertEncoder(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, hidden=3072, vocabulary=30522, positions=512):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(BertLayer(width, heads, hidden) for _ in range(layers)))

    def forward(self, tokens):
        places = self.places.weight[: tokens.shape[1]]
        return self.layers(self.norm(self.words(tokens) + places))


class IbnA(nn.Module):
    """Instance normalisation of one half of the channels, batch normalisation of the other."""

    def __init__(self, channels):
        super().__init__()
        self.half = channels // 2
        self.instance = nn.InstanceNorm2d(self.half, affine=True)
        self.batch = nn.BatchNorm2d(channels - self.half)

    def forward(self, x):
        return torch.cat([self.instance(x[:, : self.half]), self.batch(x[:, self.half :])], 1)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=16):
        super().__init__()
        self.squeeze = nn.Linear(channels, channels // reduction, bias=False)
        self.excite = nn.Linear(channels // reduction, channels, bias=False)

    def forward(self, x):
        gate = self.excite(functional.relu(self.squeeze(x.mean((2, 3))))).sigmoid()
        return x * gate[:, :, None, None]


class SeIbnBottleneck(nn.Module):
    def __init__(self, inputs, planes, stride, ibn):
        super().__init__()
        outputs = 4 * planes
        self.body = nn.Sequential(
            nn.Conv2d(inputs, planes, 1, bias=False), IbnA(planes) if ibn else nn.BatchNorm2d(planes), nn.ReLU(),
            nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(),
            nn.Conv2d(planes, outputs, 1, bias=False), nn.BatchNorm2d(outputs), SqueezeExcite(outputs))
        self.shortcut = nn.Identity() if inputs == outputs and stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def se_resnet101_ibn_a(classes=1000):
    blocks, inputs = [], 64
    for planes, count, stride in ((64, 3, 1), (128, 4, 2), (256, 23, 2), (512, 3, 2)):
        for index in range(count):
            blocks.append(SeIbnBottleneck(inputs, planes, stride if index == 0 else 1, ibn=planes != 512))
            inputs = 4 * planes
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                         *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Lstm(nn.Module):
    """As `gantry zoo lstm`: 64 inputs, two bidirectional layers of 128, a class for every step."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(64, 128, num_layers=2, bidirectional=True, batch_first=True)
        self.classifier = nn.Linear(256, 10)

    def forward(self, x):
        return self.classifier(self.layers(x)[0])


def images(batch):
    return torch.randn(batch, 3, 224, 224)


def tokens(batch):
    return torch.randint(0, 30522, (batch, 128))


def steps(batch):
    return torch.randn(batch, 50, 64)


def of_torchvision(name):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None)
    return make


NETWORKS = {name: (of_torchvision(name), images) for name in (
    'resnet18', 'resnet50', 'mobilenet_v2', 'efficientnet_b0', 'densenet121', 'vgg16', 'squeezenet1_1')}
NETWORKS.update({
    'bert_base': (BertEncoder, tokens),
    'lstm': (Lstm, steps),
    'se_resnet101_ibn_a': (se_resnet101_ibn_a, images),
})


def build(name, batch):
    """The network in inference mode, and an input for it."""
    torch.manual_seed(0)
    make_network, make_input = NETWORKS[name]
    network = make_network().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return network, make_input(batch)
